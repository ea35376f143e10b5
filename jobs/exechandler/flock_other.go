//go:build unix && !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package exechandler

import (
	"errors"
	"os"
)

func flock(*os.File) error { return errors.ErrUnsupported }
