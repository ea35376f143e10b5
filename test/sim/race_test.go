//go:build race

package sim

// many is how many seeds a test run simulates where each costs ten times as much; the others run without
// the race detector.
const many = 200
