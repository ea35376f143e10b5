package work

import (
	"fmt"

	"github.com/lockstep-scheduler/lockstep/internal/outfile"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// outputFile is the file that gets all of an attempt's output. What goes wrong with it does not change the attempt.
type outputFile struct {
	*outfile.Writer // nil: there is none, or none any more
	path            string
	rotation        outfile.Rotation
	wrong           error // what went wrong first
}

// toFile has the output written to a file, too, if it is to be.
func (l *live) toFile(files *outfile.Files, o jobs.Output, t jobs.Task) {
	if o.File == "" {
		return
	}
	l.file.path, l.file.rotation = o.FileOf(t), outfile.Rotation{Size: o.FileSize, Keep: o.Files}
	l.file.Writer, l.file.wrong = files.Open(l.file.path)
}

func (f *outputFile) write(p []byte) {
	if f.Writer == nil || f.wrong != nil {
		return
	}
	f.wrong = f.Append(p, f.rotation)
}

// closeFile ends the use of the attempt's file. If something went wrong, the log says so, and the end of the output that is kept.
func (e *Executor) closeFile(a *attempt) {
	f := &a.live.file
	if f.path == "" {
		return
	}
	if f.Writer != nil {
		if err := f.Close(); f.wrong == nil {
			f.wrong = err
		}
	}
	if f.wrong == nil {
		return
	}
	e.log.Warn("the output of an attempt is not whole in its file", "task", a.task.ID, "job", a.task.Job, "pool", a.task.Pool, "file", f.path, "error", f.wrong)
	fmt.Fprintf(a.live.Output, "\n[the output is not whole in its file: %v]\n", f.wrong)
}
