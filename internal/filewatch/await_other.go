//go:build !linux

package filewatch

import (
	"context"
	"time"
)

// Await returns false: on these systems a file that is watched is opened, see [File].
func (f *File) Await(context.Context, time.Duration) (told bool) { return false }
