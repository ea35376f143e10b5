package exechandler

import (
	"os"
	"slices"
	"strings"
	"time"
)

// Foreground is a command that this process stands in for, as env(1) and timeout(1) do: it has the streams of this process,
// and gets its signals.
type Foreground struct {
	Argv    []string // program and arguments, as they are; a program without "/" is sought in the PATH of Environ
	Environ []string // all of its environment
	// Marks are entries of Environ that no other command on this machine has: its descendants are found by them.
	Marks                 []string
	Stdin, Stdout, Stderr *os.File         // no Stdin: /dev/null
	Signals               <-chan os.Signal // are sent to its process group
	StopGrace             time.Duration    // between SIGTERM and SIGKILL; 0: at once
}

// Find returns the file of the program, or why there is none that can be started.
func (f Foreground) Find() (string, error) { return find(f.Argv[0], f.path()) }

// path is the PATH of the command.
func (f Foreground) path() string {
	for _, entry := range slices.Backward(f.Environ) {
		if path, ok := strings.CutPrefix(entry, "PATH="); ok {
			return path
		}
	}
	return defaultPath
}
