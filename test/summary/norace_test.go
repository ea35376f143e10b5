//go:build !race

package summary

var buildFlags []string
