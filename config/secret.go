package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxSecret bounds a file that a key like password_file names.
const maxSecret = 64 << 10

// resolve makes a path of the file being read absolute where it starts: at the file's folder.
func (r *reader) resolve(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(r.file.dir, path)
}

// secretField takes a text that errors never show. Empty is the same as no key.
func secretField[T any](place func(*T) *string) read[T] {
	return func(r *reader, n *yaml.Node, into *T) {
		if value, ok := r.text(n); ok && value != "" {
			*place(into) = value
		}
	}
}

// secretFileField takes the path of a file and reads the secret from it, without the line break
// at its end.
func secretFileField[T any](place func(*T) *string) read[T] {
	return func(r *reader, n *yaml.Node, into *T) {
		path, ok := r.text(n)
		if !ok || path == "" {
			return
		}
		data, ok := r.secretFile(n, path)
		if !ok {
			return
		}
		secret := strings.TrimRight(string(data), "\r\n")
		switch {
		case secret == "":
			r.fail(n, r.resolve(path)+" is empty", "")
		case strings.ContainsAny(secret, "\r\n\x00"):
			r.fail(n, r.resolve(path)+" has more than one line", "")
		default:
			*place(into) = secret
		}
	}
}

// secretFile reads a file that only its owner should be able to read. Container platforms mount
// secrets readable for all, so that is a warning; a secret that others may replace is none.
func (r *reader) secretFile(n *yaml.Node, path string) ([]byte, bool) {
	path = r.resolve(path)
	data, info, err := readRegular(path, maxSecret)
	if err != nil {
		r.fail(n, fmt.Sprintf("%s: %v", path, cause(err)), "")
		return nil, false
	}
	switch mode := info.Mode().Perm(); {
	case runtime.GOOS == "windows": // has no such modes
	case mode&0o022 != 0:
		r.fail(n, fmt.Sprintf("%s can be written by others (mode %04o)", path, mode), "chmod 600")
		return nil, false
	case mode&0o044 != 0:
		r.warn(n, fmt.Sprintf("%s can be read by others (mode %04o)", path, mode), "chmod 600")
	}
	return data, true
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
