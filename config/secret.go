package config

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxSecret bounds a file that a key like password_file names.
const maxSecret = 64 << 10

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
	switch {
	case othersMay(info, 0o022):
		r.fail(n, fmt.Sprintf("%s can be written by others (mode %04o)", path, info.Mode().Perm()), "chmod 600")
		return nil, false
	case othersMay(info, 0o044):
		r.warn(n, fmt.Sprintf("%s can be read by others (mode %04o)", path, info.Mode().Perm()), "chmod 600")
	}
	return data, true
}
