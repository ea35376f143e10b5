//go:build unix && !linux

package trustedfile

import "os"

// mountedReadOnly is for containers on Linux.
func mountedReadOnly(*os.File) bool { return false }
