package config

import (
	"bytes"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// loadAgain is LoadBytes where most of it was read before; nil: it is to be read whole. A warning about jobs that were not read again would have no position.
func loadAgain(path string, data []byte, o Options) *Config {
	if o.Before == nil || o.Before.origin == nil || !o.Before.origin.is(o) {
		return nil
	}
	r := newReader(path, data, o)
	r.before, r.reused = o.Before, make(map[string]bool, len(o.Before.Set.Jobs))
	for _, file := range r.before.origin.programs {
		if !r.executable(file) {
			return nil
		}
	}
	r.load(data)
	if r.lost || r.report.errors() != nil {
		return nil
	}
	r.c.Warnings = r.warnings.errors()
	return r.c
}

// reusedText is the text of a job that is as it was; the zero value: it is not.
type reusedText struct {
	name   string
	digest digest
}

// parseAgain parses of a file what is not as it was: what is beside the jobs, and the jobs with another text. False: the file is to be read whole. That is so
// where more than half of the jobs are others, and where anything is wrong: positions are said by a load of the whole.
func (r *reader) parseAgain(s *source, data []byte) bool {
	before, known := r.before.origin.files[s.full]
	if !known {
		return false
	}
	if !before.cut {
		return before.beside == digestOf(data) && r.parseWhole(s, data)
	}
	texts, found := s.cut()
	if !found || before.beside != s.beside() {
		return false
	}
	root, err := document(texts.around(data))
	if err != nil {
		return false
	}
	place := jobsValue(root, texts.lines[0]-1)
	if place == nil {
		return false
	}
	s.root, s.reused, s.grown = root, make([]reusedText, len(texts.starts)), before.grown
	var others []int // the indexes of texts that are not as they were
	for i := range texts.starts {
		sum := s.digest(texts.of(data, i))
		if name, has := r.before.origin.jobs[sum]; has && !r.reused[name] {
			s.reused[i], r.reused[name] = reusedText{name, sum}, true
		} else if others = append(others, i); len(others) > len(texts.starts)/2 {
			return false
		}
	}
	if len(others) > 0 {
		if *place = r.parseOthers(s, others); *place == nil {
			return false
		}
	}
	return sound(s, &r.report) && s.grown <= maxGrowth
}

// parseOthers parses these texts of the jobs of a file together, below what is before the jobs, where their anchors may be. They have their positions in the file. Nil: a text is not what its
// lines say, or has an anchor, which another text may mean.
func (r *reader) parseOthers(s *source, indexes []int) *yaml.Node {
	text := slices.Clone(s.data[:s.texts.from])
	line := s.texts.lines[0]
	together := texts{lines: []int{}}
	for _, i := range indexes {
		one := s.texts.of(s.data, i)
		text, together.lines = append(text, one...), append(together.lines, line)
		line += bytes.Count(one, []byte("\n"))
	}
	root, err := document(text)
	if err != nil {
		return nil
	}
	file := &source{name: s.name, root: root}
	if !sound(file, &r.report) || file.anchored(s.texts.lines[0], line) {
		return nil
	}
	s.grown += file.grown
	jobs := jobsMap(root, s.texts.lines[0]-1)
	if jobs == nil {
		return nil
	}
	left := jobs.Content
	for k, i := range indexes {
		from := together.lines[k]
		n := together.keysIn(k, left)
		if n == 0 || i > 0 && left[0].Line != from {
			return nil
		}
		for _, node := range left[:2*n] {
			moved(node, s.texts.lines[i]-from)
		}
		left = left[2*n:]
	}
	return jobs
}

// moved adds lines to the positions of a tree.
func moved(n *yaml.Node, lines int) {
	n.Line += lines
	for _, child := range n.Content {
		moved(child, lines)
	}
}

// keep takes over the jobs whose texts are as they were, unless a file is missing, or the others are wrong beside them, as by their names.
func (r *reader) keep(files []*source) {
	r.lost = r.lost || len(files) != len(r.before.origin.files)
	all := make(map[string]jobs.Job, len(r.c.Set.Jobs)+len(r.reused))
	maps.Copy(all, r.c.Set.Jobs)
	for name := range r.reused {
		job, had := r.before.Set.Jobs[name]
		r.lost = r.lost || !had
		all[name] = job
		r.jobs.order = append(r.jobs.order, name)
	}
	others := slices.Collect(maps.Keys(r.c.Set.Jobs))
	r.lost = r.lost || len(all) < len(others)+len(r.reused)
	r.c.Set.Jobs = all
	r.lost = r.lost || r.c.Set.ValidateChanged(r.before.Set, others) != nil
}
