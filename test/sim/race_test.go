//go:build race

package sim

// many is how many seeds a test run simulates where each costs ten times as much; the others run without
// the race detector.
const many = 200

// oneIn is for bugs that the judge finds: of so many in a test one is looked for. All are without the race detector.
const oneIn = 10
