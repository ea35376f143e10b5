package config

import (
	"bytes"
	"crypto/sha256"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// origin is what a configuration was read from. A later load compares with it, and reuses the jobs whose text is as it was.
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

// remember is what the files were, whose jobs are those of r, without an error. It does not have the jobs that are to be read again each time: those with a
// warning, which has a position, and those that name other files, whose content they have and of which Options.Opened is to be told.
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
		names, single := s.names()
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

// names are those of the jobs of a file, in the order of its texts; "" where one has several. False: a text is not what its lines say, as it begins or ends within
// a job, or has an anchor, which that of another job may mean.
func (s *source) names() (names []string, single bool) {
	t, found := s.cut()
	if !found {
		return nil, false
	}
	names = make([]string, len(t.starts))
	var others, lines []int
	for i := range names {
		if s.reused != nil {
			names[i] = s.reused[i].name
		}
		if names[i] == "" {
			others, lines = append(others, i), append(lines, t.lines[i])
		}
	}
	var read []*yaml.Node
	if all := jobsMap(s.root, t.lines[0]-1); all != nil {
		read = all.Content
	}
	parts := entries(read, lines)
	if parts == nil {
		return nil, false
	}
	for k, i := range others {
		if key := parts[k][0]; len(parts[k]) == 2 && !isMerge(key) {
			names[i] = key.Value
		}
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
		t, _ = cutJobs(s.data)
		s.texts = &t
	}
	return *s.texts, s.texts.to > s.texts.from
}

// beside is the digest of what is not the text of a job, of a file that has been cut.
func (s *source) beside() digest { return digestOf(s.data[:s.texts.from], s.data[s.texts.to:]) }

// madeWith reports whether a load with these options would make the same of the same text.
func (o *origin) madeWith(options Options) bool {
	if !slices.Equal(o.environ, options.Environ) {
		return false
	}
	for name, h := range o.funcs {
		was, now := jobs.Job{Handler: h}, jobs.Job{Handler: options.Funcs[name]}
		if !was.Same(&now) {
			return false
		}
	}
	return true
}
