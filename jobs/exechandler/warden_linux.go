package exechandler

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"github.com/lockstep-scheduler/lockstep/internal/process"
	"github.com/lockstep-scheduler/lockstep/jobs/exechandler/internal/warden"
)

// CanWarden reports whether Warden works on this system: on Linux, with /proc and /dev/null. A bare chroot may
// lack them; container engines have both.
func CanWarden() bool {
	_, self := os.Stat("/proc/self/exe")
	_, null := os.Stat(os.DevNull)
	return self == nil && null == nil
}

func beWarden() bool {
	if len(os.Args) > 0 && os.Args[0] == process.Gate {
		warden.Gate()
		return true
	}
	if len(os.Args) == 0 || os.Args[0] != process.Warden {
		wardens.Store(CanWarden())
		return false
	}
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil)) // the replica's standard error
	if slices.Contains(os.Environ(), warden.PlainLog) {
		log = slog.New(plainLog{os.Stderr})
	}
	if err := warden.Run(log); errors.Is(err, warden.ErrByHand) {
		fmt.Fprintln(os.Stderr, err)
	} else if err != nil {
		log.Error("the warden ends after an error; its commands are killed", "error", err)
	}
	return true
}
