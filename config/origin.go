package config

import (
	"bytes"
	"crypto/sha256"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// origin is what a configuration was read from. A later load compares with it, and takes over the jobs whose text is as it was.
type origin struct {
	environ  []string
	funcs    map[string]jobs.Handler
	files    map[string]fileOrigin // by their full paths
	jobs     map[digest]string     // names, by texts; see remember
	programs []string              // the executable files among those that commands name
}

// fileOrigin is what a file had beside the jobs of origin; where it has no such ones, all that it had.
type fileOrigin struct {
	beside digest
	cut    bool
	grown  int // by aliases, in nodes, at most
}

type digest [sha256.Size]byte

// digestOf tells texts apart, also by where one ends and the next begins.
func digestOf(parts ...[]byte) (d digest) {
	h := sha256.New()
	for _, part := range parts {
		end := sha256.Sum256(part)
		h.Write(end[:])
	}
	h.Sum(d[:0])
	return d
}

// remember is what the files were, of which r has read everything without an error. It does not have the jobs that are to be read again each time: those with a
// warning, which has a position, and those that name other files, of which Options.Opened is to be told.
func (r *reader) remember(files []*source) *origin {
	o := &origin{environ: slices.Clone(r.options.Environ), funcs: maps.Clone(r.options.Funcs), files: make(map[string]fileOrigin, len(files)), jobs: make(map[digest]string, len(r.c.Set.Jobs))}
	for file, found := range r.programs {
		if found {
			o.programs = append(o.programs, file)
		}
	}
	for _, s := range files {
		if s.full == "" { // the folder of the process is gone
			return nil
		}
		names, single := r.namesOf(s)
		if !single {
			o.files[s.full] = fileOrigin{beside: digestOf(s.data)}
			continue
		}
		o.files[s.full] = fileOrigin{s.beside(), true, s.grown}
		for i, name := range names {
			switch {
			case s.reused != nil && s.reused[i].name != "":
				o.jobs[s.reused[i].digest] = name
			case name != "" && !r.volatile[name]:
				o.jobs[s.digest(s.texts.of(s.data, i))] = name
			}
		}
	}
	return o
}

// namesOf are the names of the jobs of a file, in the order of its texts; "" where one has several. False: a text is not what its lines say, as it begins or ends within
// a job, or has an anchor, which that of another job may mean.
func (r *reader) namesOf(s *source) (names []string, single bool) {
	t, found := s.cut()
	if !found {
		return nil, false
	}
	names = make([]string, len(t.starts))
	for i, text := range s.reused {
		names[i] = text.name
	}
	var left []*yaml.Node // keys and values
	if jobs := jobsMap(s.root, t.lines[0]-1); jobs != nil {
		left = jobs.Content
	}
	for i := range names {
		if names[i] != "" {
			continue
		}
		n := t.keysIn(i, left)
		if n == 0 || i > 0 && left[0].Line != t.lines[i] { // the first may have a comment before it
			return nil, false
		}
		if n == 1 && !isMerge(left[0]) {
			names[i] = left[0].Value
		}
		left = left[2*n:]
	}
	end := t.lines[0] + bytes.Count(s.data[t.from:t.to], []byte("\n"))
	return names, !s.anchored(t.lines[0], end) && (t.to == len(s.data) || hasKey(s.root, end))
}

// hasKey reports whether a key of a map is in a line.
func hasKey(root *yaml.Node, line int) (has bool) {
	for i := 0; root.Kind == yaml.MappingNode && i < len(root.Content); i += 2 {
		has = has || root.Content[i].Line == line
	}
	return has
}

// keysIn is how many keys of a map, whose keys and values these are, begin in the lines of the text at index i or before.
func (t texts) keysIn(i int, of []*yaml.Node) (n int) {
	for 2*n < len(of) && (i+1 == len(t.lines) || of[2*n].Line < t.lines[i+1]) {
		n++
	}
	return n
}

// jobsMap is the map below the key "jobs" of a line, nil if that is no map of lines.
func jobsMap(root *yaml.Node, line int) *yaml.Node {
	for i := 0; root.Kind == yaml.MappingNode && i < len(root.Content); i += 2 {
		if key, jobs := root.Content[i], root.Content[i+1]; key.Line == line && key.Value == "jobs" &&
			jobs.Kind == yaml.MappingNode && jobs.Style&yaml.FlowStyle == 0 {
			return jobs
		}
	}
	return nil
}

// digest is that of the text of a job in this file, whose folder and anchors it may mean.
func (s *source) digest(text []byte) (d digest) {
	if s.hash == nil {
		s.hash = sha256.New()
	}
	s.hash.Reset()
	s.hash.Write([]byte(s.full + "\x00"))
	s.hash.Write(text)
	s.hash.Sum(d[:0])
	return d
}

// cut is cutJobs, once.
func (s *source) cut() (t texts, found bool) {
	if s.texts == nil {
		if t, found = cutJobs(s.data); !found {
			return texts{}, false
		}
		s.texts = &t
	}
	return *s.texts, true
}

// beside is the digest of what is not the text of a job, of a file that has been cut.
func (s *source) beside() digest { return digestOf(s.data[:s.texts.from], s.data[s.texts.to:]) }

// is reports whether a load with these options would make the same of the same text.
func (o *origin) is(options Options) bool {
	if !slices.Equal(o.environ, options.Environ) {
		return false
	}
	for name, h := range o.funcs {
		was, now := jobs.Job{Handler: h}, jobs.Job{Handler: options.Funcs[name]}
		if h == nil || !was.Same(&now) {
			return false
		}
	}
	return true
}
