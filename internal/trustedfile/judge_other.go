//go:build !unix

package trustedfile

import (
	"io/fs"
	"os"
)

const openFlags = os.O_RDONLY

const modes = false

func (Rule) judge(string, *os.File, fs.FileInfo) error { return nil }

// Others returns nothing on systems without file modes.
func Others(string, int) (problem string, change bool) { return "", false }

func isHanded(string) bool { return false }

func isSocket(error) bool { return false }
