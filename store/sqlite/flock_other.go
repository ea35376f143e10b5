//go:build !unix

package sqlite

import (
	"errors"
	"os"
)

// tryLock always fails: writers take no turns here.
func tryLock(*os.File) error { return errors.ErrUnsupported }

func unlock(*os.File) {}
