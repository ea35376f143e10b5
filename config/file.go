package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"go.yaml.in/yaml/v3"
)

// resolve makes a path of the file being read absolute where it starts: at the file's folder.
func (r *reader) resolve(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(r.file.dir, path)
}

// pathField takes the path of a file that is read later. Empty is the same as no key.
func pathField[T any](place func(*T) *string) read[T] {
	return func(r *reader, n *yaml.Node, into *T) {
		if path, ok := r.text(n); ok && path != "" {
			*place(into) = r.resolve(path)
		}
	}
}

// readLimited reads a file of at most limit bytes.
func readLimited(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, errors.New("is a folder, not a file")
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("is larger than %d KiB", limit>>10)
	}
	return data, err
}

// readRegular is readLimited of a file that cannot block, as a pipe would.
func readRegular(path string, limit int64) ([]byte, fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, errors.New("is not a regular file")
	}
	data, err := readLimited(path, limit)
	return data, info, err
}

// cause is an error without the path, which stands beside it already.
func cause(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}

// othersMay reports whether anybody but the owner has one of the rights to a file that bits say.
func othersMay(info fs.FileInfo, bits fs.FileMode) bool {
	return runtime.GOOS != "windows" && info.Mode().Perm()&bits != 0 // which has no such modes
}
