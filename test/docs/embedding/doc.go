// Package embedding holds the Go code of README.md and docs/embedding.md: as tests, so that it runs. The
// pages have it word for word, see TestGo in test/docs.
package embedding
