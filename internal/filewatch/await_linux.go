package filewatch

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Await returns true once the file may have been written since Written was called last, or most is over, or ctx is done. It returns
// false at once where the system does not tell of writes, or there is no file, and in a bubble of testing/synctest, whose time would
// stand still meanwhile. The process does not wake up before.
//
// It asks for one report (inotify, IN_ONESHOT): a file that is written all the time costs no more.
func (f *File) Await(ctx context.Context, most time.Duration) (told bool) {
	if simulated() {
		return false
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return false
	}
	reports := os.NewFile(uintptr(fd), "inotify")
	defer reports.Close()
	if _, err := unix.InotifyAddWatch(fd, f.name, unix.IN_MODIFY|unix.IN_ATTRIB|unix.IN_MOVE_SELF|unix.IN_ONESHOT); err != nil {
		return false
	}
	if f.state() != f.last { // it was written before it was watched
		return true
	}
	if err := reports.SetReadDeadline(time.Now().Add(most)); err != nil {
		return false
	}
	defer context.AfterFunc(ctx, func() { _ = reports.SetReadDeadline(time.Now()) })()
	_, _ = reports.Read(make([]byte, unix.SizeofInotifyEvent)) // or its time is over
	return true
}

// simulated reports whether the time of this goroutine is not the system's.
func simulated() bool {
	var now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_REALTIME, &now)
	return err == nil && time.Since(time.Unix(now.Unix())).Abs() > time.Hour
}
