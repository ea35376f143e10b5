//go:build !unix

package servers

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// No server runs here: what there is of the package says so to the tests that ask for one.

const (
	sigStop = syscall.SIGKILL
	sigCont = syscall.SIGKILL
)

func attributes(*account) *syscall.SysProcAttr { return nil }

func tied(own *syscall.SysProcAttr) *syscall.SysProcAttr { return own }

func lockFile(*os.File) error { return errors.ErrUnsupported }

func ownerOf(fs.FileInfo) (uid uint32, known bool) { return 0, false }
