package exechandler

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/lockstep-scheduler/lockstep/internal/abort"
)

// find returns the file of a program. Without "/" it is looked up in the PATH of the command, not of this
// process; entries that are not absolute are skipped, as in os/exec.
func find(program, path string) (string, error) {
	if strings.Contains(program, "/") {
		return program, nil
	}
	var found error
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		file := filepath.Join(dir, program)
		switch info, err := os.Stat(file); {
		case err != nil || info.IsDir():
		case info.Mode()&0o111 == 0:
			found = notFound{file + " is not executable; chmod +x makes it so", fs.ErrPermission}
		default:
			return file, nil
		}
	}
	if found != nil {
		return "", found
	}
	return "", notFound{fmt.Sprintf("command %q not found in PATH (%s); install it there, or give its full path", program, path), fs.ErrNotExist}
}

// notFound is an error of find: fs.ErrNotExist or fs.ErrPermission.
type notFound struct {
	text string
	kind error
}

func (n notFound) Error() string { return n.text }
func (n notFound) Unwrap() error { return n.kind }

// Check returns why a run would fail now: the working directory does not exist, or the program does not, or may
// not be executed. It starts nothing. A later run may still fail.
func (h *Handler) Check() error {
	program, err := find(h.argv[0], h.path)
	if err != nil {
		return err
	}
	dir := h.command.Dir
	if err := checkDir(dir); err != nil {
		return err
	}
	switch info, err := os.Stat(inDir(program, dir)); {
	case err != nil:
		return explain(program, dir, err)
	case info.IsDir() || info.Mode()&0o111 == 0:
		return explain(program, dir, fs.ErrPermission)
	}
	return nil
}

// inDir is the file of a program that is started in a folder.
func inDir(program, dir string) string {
	if filepath.IsAbs(program) {
		return program
	}
	return filepath.Join(dir, program)
}

// checkDir says what is wrong with a working directory; "" is this process's.
func checkDir(dir string) error {
	if dir == "" {
		return nil
	}
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", dir)
	}
	if err != nil {
		return fmt.Errorf("working directory: %w", err)
	}
	return nil
}

// explain says what to do about a command that could not be started.
func explain(program, dir string, err error) error {
	if full := noRoom(program, err); full != nil {
		return full
	}
	if err := checkDir(dir); err != nil {
		return err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, statErr := os.Stat(inDir(program, dir)); statErr == nil {
			return fmt.Errorf("cannot start %s: the interpreter that its first line (#!) names does not exist: %w", program, err)
		}
		return fmt.Errorf("command %q not found; relative paths start at the working directory: %w", program, err)
	case errors.Is(err, fs.ErrPermission):
		if at, statErr := os.Stat(inDir(program, dir)); statErr == nil && at.IsDir() {
			return fmt.Errorf("cannot start %s: it is a folder, not a program: %w", program, err)
		}
		return fmt.Errorf("cannot start %s; is it executable (chmod +x), and its folder readable? %w", program, err)
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("cannot start %s: neither a program of this machine nor a script whose first line names its interpreter (#!/bin/sh): %w", program, err)
	case errors.Is(err, syscall.E2BIG):
		return fmt.Errorf("cannot start %s: arguments and environment are too large together; pass large things as payload, which comes on standard input: %w", program, err)
	}
	return fmt.Errorf("cannot start %s: %w", program, err)
}

// noRoom says, as abort.ErrNoRoom, that a start failed for want of descriptors, processes or memory:
// then nothing of the command has run. nil: it failed for another reason.
func noRoom(program string, err error) error {
	switch {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return fmt.Errorf("%w: cannot start %s: %w; raise the limit (ulimit -n, LimitNOFILE=), or lower replica.workers", abort.ErrNoRoom, program, err)
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM):
		return fmt.Errorf("%w: cannot start %s: the machine has no room for another process: %w", abort.ErrNoRoom, program, err)
	}
	return nil
}
