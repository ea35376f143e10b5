package history

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Count is the size of the files in dir at the end of a run, for Run.Files.
func Count(dir string) (map[string]int64, error) {
	all := map[string]int64{}
	for _, file := range append(slices.Clone(logs), FinalFile, LeftoversFile) {
		n, err := measure(filepath.Join(dir, file))
		switch {
		case err == nil:
			all[file] = n
		case !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("history: %w", err)
		}
	}
	return all, nil
}

// damaged lists the files of dir that are smaller than they were, or missing. A .jsonl file may have more: a
// command that outlived the run may have written since.
func damaged(dir string, had map[string]int64) (all []string, err error) {
	for _, file := range slices.Sorted(maps.Keys(had)) {
		has, err := measure(filepath.Join(dir, file))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			all = append(all, fmt.Sprintf("%s is missing, and had %s", file, amount(file, had[file])))
		case err != nil:
			return nil, err
		case has < had[file], has != had[file] && !isLog(file):
			all = append(all, fmt.Sprintf("%s has %s, and had %d", file, amount(file, has), had[file]))
		}
	}
	return all, nil
}

// measure is how many lines a .jsonl file has, or how many bytes another.
func measure(path string) (n int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if !isLog(path) {
		info, err := f.Stat()
		if err != nil {
			return 0, err
		}
		return info.Size(), nil
	}
	for page := make([]byte, 64<<10); ; {
		got, err := f.Read(page)
		n += int64(bytes.Count(page[:got], []byte("\n")))
		switch {
		case errors.Is(err, io.EOF):
			return n, nil
		case err != nil:
			return 0, err
		}
	}
}

func isLog(file string) bool { return strings.HasSuffix(file, ".jsonl") }

func amount(file string, n int64) string {
	what := "byte"
	if isLog(file) {
		what = "line"
	}
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
