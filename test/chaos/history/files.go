package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// Names of the files of a run.
const (
	RunFile       = "run.json"
	WindowsFile   = "windows.jsonl"
	ProcessesFile = "processes.jsonl"
	EffectsFile   = "effects.jsonl"
	AsksFile      = "asks.jsonl"
	ProbesFile    = "probes.jsonl"
	StaleFile     = "stale.jsonl"
	HoldsFile     = "holds.jsonl"
	WaitsFile     = "waits.jsonl"
	ExecsFile     = "execs.jsonl"
	LockedFile    = "locked.jsonl"
	WorkersFile   = "workers.jsonl"
	SaidFile      = "said.jsonl"
	EditsFile     = "edits.jsonl"
	AuditFile     = "audit.jsonl"
	FinalFile     = "final.json"
	LeftoversFile = "leftovers.json"
	LogsDir       = "logs"
)

// logs are those that are written line by line.
var logs = []string{WindowsFile, ProcessesFile, EffectsFile, AsksFile, ProbesFile, StaleFile, HoldsFile, WaitsFile, ExecsFile, LockedFile, WorkersFile, SaidFile, EditsFile, AuditFile}

// History is a whole run, read back.
type History struct {
	Run       Run
	Windows   []Window
	Processes []Process
	Effects   []Effect
	Asks      []Ask
	Probes    []Probe
	Stale     []Stale
	Holds     []Hold
	Waits     []Wait
	Execs     []Exec
	Locked    []Locked
	Workers   []Worker
	Said      []Said
	Edits     []Edit
	Audit     []Change
	Final     Final
	Leftovers []Leftover
	Damaged   []string // files that are smaller than Run.Files says
}

// Read reads the run in dir. run.json and final.json must exist; other files may be missing, and are then
// empty. An incomplete last line is an error: an unfinished run is not to be judged. In what commands
// wrote, an incomplete line of a killed writer is skipped.
func Read(dir string) (*History, error) {
	h := &History{}
	if err := whole(dir); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	err := errors.Join(
		object(dir, RunFile, &h.Run),
		object(dir, FinalFile, &h.Final),
		optional(object(dir, LeftoversFile, &h.Leftovers)),
		lines(dir, WindowsFile, &h.Windows),
		lines(dir, ProcessesFile, &h.Processes),
		lines(dir, EffectsFile, &h.Effects),
		lines(dir, AsksFile, &h.Asks),
		lines(dir, ProbesFile, &h.Probes),
		lines(dir, StaleFile, &h.Stale),
		lines(dir, HoldsFile, &h.Holds),
		lines(dir, WaitsFile, &h.Waits),
		lines(dir, ExecsFile, &h.Execs),
		lines(dir, LockedFile, &h.Locked),
		lines(dir, WorkersFile, &h.Workers),
		lines(dir, SaidFile, &h.Said),
		lines(dir, EditsFile, &h.Edits),
		lines(dir, AuditFile, &h.Audit),
	)
	h.Run.Directory = dir
	if err == nil {
		h.Damaged, err = damaged(dir, h.Run.Files)
	}
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return h, nil
}

// whole is an error if dir has no run.json; it says what dir is instead, if that is known.
func whole(dir string) error {
	_, err := os.Stat(filepath.Join(dir, RunFile))
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if entries, err := os.ReadDir(dir); err != nil {
		return err
	} else if i := slices.IndexFunc(entries, func(e fs.DirEntry) bool { return isRun(filepath.Join(dir, e.Name())) }); i >= 0 {
		return fmt.Errorf("%s has runs in it: DIR is the folder of one run, such as %s", dir, filepath.Join(dir, entries[i].Name()))
	}
	for _, file := range logs {
		if _, err := os.Stat(filepath.Join(dir, file)); err == nil {
			return fmt.Errorf("the run in %s was cut off: it has %s, and no %s, which is written at the end", dir, file, RunFile)
		}
	}
	return fmt.Errorf("%s has no %s: DIR is the folder of one run", dir, RunFile)
}

func isRun(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, RunFile))
	return err == nil
}

// Unused is an error if dir has files of a run in it: those of another run must not be added to them.
func Unused(dir string) error {
	for _, file := range append(slices.Clone(logs), RunFile, FinalFile, LeftoversFile) {
		switch _, err := os.Lstat(filepath.Join(dir, file)); {
		case err == nil:
			return fmt.Errorf("history: %s has a run in it already: %s; remove it, or take another folder", dir, file)
		case !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("history: %w", err)
		}
	}
	return nil
}

// Write writes v as one of the .json files of dir.
func Write(dir, file string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("history: %s: %w", file, err)
	}
	return os.WriteFile(filepath.Join(dir, file), append(text, '\n'), 0o644)
}

// Log appends to one of the .jsonl files. It may be used from many goroutines, and other processes
// may append to the same file: each line is one write.
type Log[T any] struct {
	mu   sync.Mutex
	file *os.File
}

// OpenLog opens a log of dir, made if it is not there.
func OpenLog[T any](dir, file string) (*Log[T], error) {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return &Log[T]{file: f}, nil
}

// Add appends v.
func (l *Log[T]) Add(v T) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err = l.file.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	return nil
}

// Close closes the file.
func (l *Log[T]) Close() error { return l.file.Close() }

func object(dir, file string, v any) error {
	path := filepath.Join(dir, file)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func optional(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

const longest = 1 << 20 // line, in bytes

func lines[T any](dir, file string, into *[]T) error {
	path := filepath.Join(dir, file)
	f, err := os.Open(path)
	if err != nil {
		return optional(err)
	}
	defer f.Close()
	scanner := bufio.NewScanner(f)
	scanner.Buffer(nil, longest)
	n := 1
	for ; scanner.Scan(); n++ {
		var v T
		err := json.Unmarshal(scanner.Bytes(), &v)
		if whole := afterCut(scanner.Bytes()); err != nil && whole != nil {
			v = *new(T) // parts of the first line are in it
			err = json.Unmarshal(whole, &v)
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
		*into = append(*into, v)
	}
	if errors.Is(scanner.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("%s:%d: a line of more than %d bytes", path, n, longest)
	}
	return scanner.Err()
}

// afterCut is the whole line behind an incomplete one; nil: there is none. A process that is killed within a
// write leaves a part at the end of a page.
func afterCut(line []byte) []byte {
	begin := []byte(`{"What":`)
	i := bytes.LastIndex(line, begin)
	if i > 0 && (bytes.HasPrefix(line, begin) || bytes.HasPrefix(begin, line[:i])) {
		return line[i:]
	}
	return nil
}
