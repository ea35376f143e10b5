package main

import (
	"bytes"
	"crypto/sha256"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lockstep-scheduler/lockstep/internal/trustedfile"
)

// loadedFiles are the files that a configuration was made of, patterns among them, with a hash of each as it was read: a change that comes while
// they are read is another content than this one.
type loadedFiles struct{ hashes map[string][]byte }

// note takes what config.Load tells of a file that it opens. A file that was read twice, and was another one then, has neither content.
func (l *loadedFiles) note(path string, content []byte) {
	before, known := l.hashes[path]
	if known && content == nil {
		return
	}
	if l.hashes == nil {
		l.hashes = map[string][]byte{}
	}
	hash := hashOf(content)
	if content == nil {
		hash = readHash(path)
	}
	if known && !bytes.Equal(before, hash) {
		hash = nil
	}
	l.hashes[path] = hash
}

// names are sorted.
func (l *loadedFiles) names() []string { return slices.Sorted(maps.Keys(l.hashes)) }

// contents are the hashes, in the order of the names.
func (l *loadedFiles) contents() (all [][]byte) {
	for _, name := range l.names() {
		all = append(all, l.hashes[name])
	}
	return all
}

// readHash is the hash of a file as it is now, or of the paths that match a pattern.
func readHash(name string) []byte {
	if strings.ContainsAny(name, "*?[") {
		found, _ := filepath.Glob(name) // a bad pattern is an error of the load
		return hashOf([]byte(strings.Join(found, "\n")))
	}
	file, err := trustedfile.Rule{Limit: maxWatched}.Read(name)
	if err != nil {
		file.Data = []byte(err.Error()) // a load says whether that matters
	}
	return hashOf(file.Data)
}

func hashOf(data []byte) []byte {
	sum := sha256.Sum256(data)
	return sum[:]
}
