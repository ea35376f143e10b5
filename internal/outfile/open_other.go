//go:build !unix

package outfile

const plainly = 0
