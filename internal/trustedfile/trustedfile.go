// Package trustedfile reads files with commands, credentials and identities: configurations, variables, tokens,
// passwords, certificates.
//
// Such a file is regular, of bounded size, owned by root or by the user of this process, and can be written by
// no other user. Links are followed, and their target is checked: container platforms mount secrets as links.
// The file is opened once and checked by its descriptor. A FIFO or a device is refused without waiting.
//
// Two exceptions:
//
//   - its group may write it, if the group has the number of the owner: the private group of a user,
//     as useradd makes it. A checkout under umask 002 has such files. Not so for a [Rule.Secret], for group 0, and for
//     a file with an ACL, whose users and groups may write it then (Linux only).
//   - it has another owner, but is mounted read-only here, by a mount that is not the one of the
//     root folder: so container engines mount files of the machine's users. Linux only.
//
// The folders above a file are not checked. On Windows, owners and modes are not either.
package trustedfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Rule has the requirements for a file.
type Rule struct {
	Limit  int64 // maximum size in bytes
	Secret bool  // readable by its owner alone: a password, a token, a key
	Handed bool  // may also be a pipe that this process was started with: /dev/stdin, /dev/fd/N
}

// File is the result of Read.
type File struct {
	Data []byte
	Mode fs.FileMode // zero for a pipe
}

// Exposed says that other users may read the file, for a warning about a secret; "" if they may not.
func (f File) Exposed() string {
	if !modes || f.Mode.Perm()&0o044 == 0 {
		return ""
	}
	return fmt.Sprintf("can be read by others (mode %04o)", f.Mode.Perm())
}

// Error says why a file was not read. It wraps the error of the system if there is one, as
// [fs.ErrNotExist].
type Error struct {
	Path    string
	Problem string // of the file, without its path: "can be written by others (mode 0666)"
	Remedy  string // what to do: "chmod go-w PATH"; may be empty
	Folder  bool   // it is one
	cause   error
}

func (e *Error) Error() string {
	if e.Remedy == "" {
		return e.Path + ": " + e.Problem
	}
	return e.Path + ": " + e.Problem + "; " + e.Remedy
}

func (e *Error) Unwrap() error { return e.cause }

// Read reads a file that fits the rule. The error is an [*Error].
func (r Rule) Read(path string) (File, error) {
	f, err := os.OpenFile(path, openFlags, 0)
	if err != nil {
		return File{}, refused(path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return File{}, refused(path, err)
	}
	file := File{Mode: info.Mode()}
	switch handed := r.Handed && isHanded(path); {
	case handed && piped(info.Mode()):
		file.Mode = 0 // it was opened before this process started: there is no other user to check
	case !info.Mode().IsRegular():
		return File{}, &Error{Path: path, Problem: "is " + kind(info.Mode()) + ", not a regular file", Remedy: "name a regular file", Folder: info.IsDir()}
	default:
		if err := r.judge(path, f, info); err != nil {
			return File{}, err
		}
		if info.Size() > r.Limit { // it need not be read
			return File{}, r.larger(path)
		}
	}
	file.Data, err = io.ReadAll(io.LimitReader(f, r.Limit+1))
	switch {
	case err != nil:
		return File{}, refused(path, err)
	case int64(len(file.Data)) > r.Limit:
		return File{}, r.larger(path)
	}
	return file, nil
}

func (r Rule) larger(path string) *Error {
	return &Error{Path: path, Problem: "is larger than " + size(r.Limit)}
}

// refused is an error of the system, without the path.
func refused(path string, err error) *Error {
	e := &Error{Path: path, Problem: err.Error(), cause: err}
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		e.Problem = p.Err.Error()
	}
	if isSocket(err) {
		e.Problem, e.Remedy = "is a socket or a device, not a regular file", "name a regular file"
	}
	return e
}

func piped(mode fs.FileMode) bool {
	return mode&(fs.ModeNamedPipe|fs.ModeSocket|fs.ModeCharDevice) != 0
}

// kind describes a file that is not regular.
func kind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}

func size(limit int64) string {
	switch {
	case limit >= 1<<20 && limit%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", limit>>20)
	case limit >= 1<<10:
		return fmt.Sprintf("%d KiB", limit>>10)
	}
	return fmt.Sprintf("%d bytes", limit)
}
