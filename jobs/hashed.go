package jobs

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// seed is what H is made of: the job's name, nil without a job, and which of its expressions this is, from 0.
type seed struct {
	job   *string
	index int
}

// lastHashed is the last day of the month that H chooses: every month has it.
const lastHashed = 28

// choose returns a number from 0 to n-1, chosen by job's name, field's name and index, with line feeds between. It never
// changes: due times depend on it.
func (s seed) choose(f *field, n int) int {
	return int(choose(fmt.Sprintf("%s\n%s\n%d", *s.job, f.name, s.index), uint64(n)))
}

// choose returns a number from 0 to n-1: the first 8 bytes, big-endian, of the SHA-256 of text, modulo n.
func choose(text string, n uint64) uint64 {
	sum := sha256.Sum256([]byte(text))
	return binary.BigEndian.Uint64(sum[:8]) % n
}

// hashed reports whether an item of a list is H, with what may stand behind it.
func hashed(item string) bool { return item != "" && (item[0] == 'H' || item[0] == 'h') }

// usesHash reports whether H is in an expression, so that its due times depend on its place.
func usesHash(spec string) bool {
	for word := range strings.FieldsSeq(spec) {
		for item := range strings.SplitSeq(word, ",") {
			if hashed(item) {
				return true
			}
		}
	}
	return false
}

// rangeOfH is a range of H, with the step of an item.
func rangeOfH(first, last, item string) string {
	_, step, stepped := strings.Cut(item, "/")
	if stepped {
		step = "/" + step
	}
	return "H(" + first + "-" + last + ")" + step
}

// addHashed puts the values of H, H(0-29), H/15 or H(0-29)/10 into c: one number of the range, or, with a
// step, each one that is a number of steps from a start within the first step.
func (f *field) addHashed(c *chosen, item string, s seed) error {
	span, stepText, stepped := strings.Cut(item[1:], "/")
	from, to := f.min, f.max
	if f.max == 31 {
		to = lastHashed
	}
	if span != "" {
		inner, closed := strings.CutSuffix(span, ")")
		first, last, ranged := strings.Cut(strings.TrimPrefix(inner, "("), "-")
		if !closed || !ranged || span[0] != '(' {
			return fmt.Errorf("%q: after H may stand a range in parentheses and a step, as in H(%d-%d)/%d", item, f.min, to, min(10, to-f.min))
		}
		var err error
		if from, err = f.value(first); err != nil {
			return err
		}
		if to, err = f.value(last); err != nil {
			return err
		}
		switch {
		case to < from && to == 0 && f.weekdays():
			return fmt.Errorf("%q: a range of H does not wrap; Sunday is 7 at its end: %s", item, rangeOfH(first, "7", item))
		case to < from:
			return fmt.Errorf("%q: a range of H does not wrap; %s chooses from %d to %d", item, rangeOfH(last, first, item), to, from)
		case f.max == 31 && to > lastHashed:
			return fmt.Errorf("%q: H chooses a day that every month has; end the range at %d", item, lastHashed)
		}
	}
	size := to - from + 1
	step := size
	if stepped {
		var err error
		if step, err = stepOf(item, stepText); err != nil {
			return err
		}
		if step >= size {
			return fmt.Errorf("%q: step %s is as large as the range, so only one number would be left; write H without a step", item, stepText)
		}
	}
	if s.job == nil {
		return errors.New("H is made of the name of a job, which an expression alone does not have; name one, as in scheduler next --job NAME")
	}
	for n := from + s.choose(f, step); n <= to; n += step {
		c.set |= 1 << f.wrap(n)
	}
	return nil
}
