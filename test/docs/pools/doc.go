// Package pools holds the Go code of docs/pools.md: as tests, so that it runs. The page has it word for word, see TestGo in test/docs.
package pools
