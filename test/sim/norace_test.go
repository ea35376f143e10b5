//go:build !race

package sim

const many = 1000 // seeds of a test run

const oneIn = 1
