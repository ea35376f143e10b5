// Package moving holds the Go code of docs/moving-from: as tests, so that it runs. The pages have it
// word for word, see TestGo in test/docs.
package moving
