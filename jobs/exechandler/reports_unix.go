//go:build unix

package exechandler

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

const (
	// reportsEvery is how often the progress of a command is read.
	reportsEvery = 500 * time.Millisecond
	// progressRead is how much is read of the end of the file, a longest line.
	progressRead = 4 << 10

	progressFile = "LOCKSTEP_PROGRESS_FILE"
	resultFile   = "LOCKSTEP_RESULT_FILE"
)

// reports passes on what a command reports by the files in its private folder; see Command. A nil one passes nothing on.
type reports struct {
	task jobs.Task
	dir  string // "": there is none, see err
	err  error

	last  string // the line of progress that was read last
	wrong string // says what is wrong with the first line that was
}

// reportsOf is nil for a task whose reports nobody takes.
func reportsOf(t jobs.Task) *reports {
	if t.Reporter == nil {
		return nil
	}
	r := &reports{task: t}
	r.dir, r.err = ours.make()
	return r
}

func (r *reports) remove() {
	if r != nil && r.dir != "" {
		ours.remove(r.dir)
	}
}

// variables name the files in the environment of the command. The command makes them.
func (r *reports) variables() []string {
	if r == nil || r.dir == "" {
		return nil
	}
	return []string{progressFile + "=" + r.path("progress"), resultFile + "=" + r.path("result")}
}

func (r *reports) path(name string) string { return filepath.Join(r.dir, name) }

// watch passes the progress on until stop is called, which returns when no more is.
//
//  1. wait reportsEvery, or for the end of the command
//  2. read the last line, and pass it on if it is another one
func (r *reports) watch() (stop func()) {
	if r == nil || r.dir == "" {
		return func() {}
	}
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(reportsEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ended:
				r.readProgress()
				return
			case <-ticker.C:
				r.readProgress()
			}
		}
	}()
	return func() {
		close(ended)
		<-done
	}
}

func (r *reports) readProgress() {
	line, err := lastLine(r.path("progress"))
	if err == nil && (line == "" || line == r.last) {
		return
	}
	r.last = line
	done, text := 0.0, ""
	if err == nil {
		done, text, err = parseProgress(line)
	}
	switch {
	case err == nil:
		_ = r.task.Progress(done, text) // it is a number
	case r.wrong == "":
		r.wrong = fmt.Sprintf("progress is not shown: %s: %v", progressFile, err)
	}
}

// parseProgress reads a line: "0.4 text" or "40% text".
func parseProgress(line string) (done float64, text string, err error) {
	number, text := line, ""
	if i := strings.IndexAny(line, " \t"); i >= 0 {
		number, text = line[:i], line[i+1:]
	}
	digits, percent := strings.CutSuffix(number, "%")
	done, err = strconv.ParseFloat(digits, 64)
	if percent {
		done /= 100
	}
	if err != nil || !(done >= 0 && done <= 1) {
		return 0, "", fmt.Errorf(`the line %s does not begin with a number from 0 to 1, or from 0%% to 100%%; write it as in "0.4 text" or "40%% text"`, clip.Quoted(line, 80))
	}
	return done, text, nil
}

// lastLine is the last line of a file that is whole and not empty; "" if there is none.
func lastLine(path string) (string, error) {
	f, size, err := openReport(path)
	if f == nil {
		return "", err
	}
	defer f.Close()
	from := max(0, size-progressRead)
	text, err := io.ReadAll(io.NewSectionReader(f, from, size-from))
	if err != nil {
		return "", err
	}
	lines := strings.Split(string(text), "\n")
	lines = lines[:len(lines)-1] // of the last one there is more to come
	for i := len(lines) - 1; i >= 0; i-- {
		line := strings.TrimSpace(lines[i])
		switch {
		case line == "":
		case i == 0 && from > 0:
			return "", fmt.Errorf("a line is longer than %d bytes; write less text", progressRead-1)
		default:
			return line, nil
		}
	}
	return "", nil
}

// finish passes the result on when the command has ended, and writes to out what was wrong with its reports; failed says that
// the command was not successful.
func (r *reports) finish(out io.Writer, failed bool) {
	if r == nil {
		return
	}
	if r.dir == "" {
		if failed { // it may be why
			fmt.Fprintf(out, "\n[%s and %s are not set: no folder could be made for them: %v]\n", progressFile, resultFile, r.err)
		}
		return
	}
	if r.wrong != "" {
		fmt.Fprintf(out, "\n[%s]\n", r.wrong)
	}
	if err := r.readResult(); err != nil {
		fmt.Fprintf(out, "\n[the task has no result: %s: %v]\n", resultFile, err)
	}
}

func (r *reports) readResult() error {
	f, size, err := openReport(r.path("result"))
	if f == nil {
		return err
	}
	defer f.Close()
	if size > jobs.MaxResult {
		return fmt.Errorf("%d bytes, at most %d are allowed; store them elsewhere, and write their name", size, jobs.MaxResult)
	}
	text, err := io.ReadAll(io.LimitReader(f, jobs.MaxResult))
	if err != nil || len(text) == 0 {
		return err
	}
	return r.task.SetResult(json.RawMessage(text))
}

// openReport opens a file of a command; nil if there is none. It does not follow links, and does not wait for a FIFO.
func openReport(path string) (f *os.File, size int64, err error) {
	f, err = os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, 0, nil
	case errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.EMLINK): // FreeBSD says EMLINK
		return nil, 0, errors.New("it is a link, which is not followed")
	case err != nil:
		return nil, 0, errors.Unwrap(err) // without the path
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no regular file")
	}
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}
