//go:build !race

package storetest

const scale = 1
