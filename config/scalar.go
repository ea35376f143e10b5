package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/internal/duration"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/internal/nearest"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// raw returns a scalar as it is written, without interpolation.
func (r *reader) raw(n *yaml.Node) (string, bool) {
	n = deref(n)
	switch {
	case n.Kind != yaml.ScalarNode:
		r.fail(n, "must be a single value", "")
		return "", false
	case n.ShortTag() == "!!null":
		r.fail(n, "has no value", `remove the key, or write ""`)
		return "", false
	}
	return n.Value, true
}

// text returns a scalar with its variables interpolated. The result is text.
func (r *reader) text(n *yaml.Node) (string, bool) {
	value, ok := r.raw(n)
	if !ok || !strings.Contains(value, "$") {
		return value, ok
	}
	value, problem, hint := interpolate(value, r.env, 0)
	if problem != "" {
		r.fail(deref(n), problem, hint)
		return "", false
	}
	if strings.ContainsRune(value, 0) {
		r.fail(deref(n), "the text contains a NUL character", "")
		return "", false
	}
	return value, true
}

// typed returns the text of a number or boolean: unquoted, or from a variable.
func (r *reader) typed(n *yaml.Node, kind string) (string, bool) {
	value, ok := r.text(n)
	n = deref(n)
	if ok && n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 && !strings.Contains(n.Value, "$") {
		r.fail(n, fmt.Sprintf("must be %s, not a text", kind), "remove the quotes")
		return "", false
	}
	return value, ok
}

// quote formats a value for an error, as in the file: a variable's value may be a secret.
func quote(n *yaml.Node) string { return quoted(deref(n).Value) }

var (
	decimal = regexp.MustCompile(`^[-+]?(0|[1-9][0-9]*)$`)
	octal   = regexp.MustCompile(`^[-+]?0[0-9]+$`)
)

func (r *reader) number(n *yaml.Node, low, high int) (int, bool) {
	value, ok := r.typed(n, "a number")
	if !ok {
		return 0, false
	}
	if octal.MatchString(value) {
		r.fail(deref(n), quote(n)+" could be decimal or octal", "write it without the leading 0")
		return 0, false
	}
	if !decimal.MatchString(value) {
		r.fail(deref(n), quote(n)+" is not a whole number", fmt.Sprintf("allowed: %d to %d", low, high))
		return 0, false
	}
	i, err := strconv.Atoi(value)
	if err != nil || i < low || i > high {
		r.fail(deref(n), quote(n)+" is out of range", fmt.Sprintf("allowed: %d to %d", low, high))
		return 0, false
	}
	return i, true
}

var fraction = regexp.MustCompile(`^(0|[1-9][0-9]*)(\.[0-9]{1,5})?$`)

// processors reads how many processors may be used, as in 1.5.
func (r *reader) processors(n *yaml.Node) (float64, bool) {
	value, ok := r.typed(n, "a number")
	if !ok {
		return 0, false
	}
	cpu, err := strconv.ParseFloat(value, 64)
	const allowed = "allowed: %v to %v, as in 0.5 or 2"
	switch {
	case !fraction.MatchString(value) || err != nil:
		r.fail(deref(n), quote(n)+" is not a number of processors", fmt.Sprintf(allowed, limits.LeastCPU, limits.CPU))
	case cpu < limits.LeastCPU || cpu > limits.CPU:
		r.fail(deref(n), quote(n)+" is out of range", fmt.Sprintf(allowed, limits.LeastCPU, limits.CPU))
	default:
		return cpu, true
	}
	return 0, false
}

func (r *reader) flag(n *yaml.Node) (value, ok bool) {
	text, ok := r.typed(n, "true or false")
	if !ok || text == "true" || text == "false" {
		return text == "true", ok
	}
	hint := "write true or false"
	if strings.Contains(deref(n).Value, "$") { // its value may be a secret
		hint = fmt.Sprintf("%s has another text; true and false are written in small letters", variablesOf(deref(n).Value))
	}
	r.fail(deref(n), quote(n)+" is neither true nor false", hint)
	return false, false
}

func (r *reader) duration(n *yaml.Node, least time.Duration) (time.Duration, bool) {
	value, ok := r.text(n)
	if !ok {
		return 0, false
	}
	n = deref(n)
	atLeast := "at least " + strings.Replace(least.String(), "m0s", "m", 1)
	d, err := duration.Parse(value)
	switch {
	case err != nil && strings.Contains(n.Value, "$"): // the value may be a secret
		r.fail(n, quote(n)+" is not a duration", "write it as in 90s, 5m, 1h30m or 2d")
	case err != nil && strings.Trim(value, "0") != "" && !negative(value):
		problem, hint, _ := strings.Cut(err.Error(), "; ")
		r.fail(n, problem, hint)
	case err != nil && value != "", err == nil && d <= 0: // 0 with or without a unit, or less
		hint := "as in 90s, 5m, 1h30m or 2d"
		if least > positive {
			hint = atLeast
		}
		r.fail(n, quote(n)+" must be more than 0", hint)
	case err != nil:
		problem, hint, _ := strings.Cut(err.Error(), "; ")
		r.fail(n, problem, hint)
	case d < least:
		r.fail(n, quote(n)+" is too short", atLeast)
	default:
		return d, true
	}
	return 0, false
}

// delay reads a duration that may be zero, which is none.
func (r *reader) delay(n *yaml.Node, least time.Duration) (time.Duration, bool) {
	value, ok := r.text(n)
	if !ok {
		return 0, false
	}
	if d, err := duration.Parse(value); err == nil && d == 0 {
		return 0, true
	}
	if value != "" && strings.Trim(value, "0") == "" {
		r.fail(deref(n), quote(n)+" has no unit", "write 0s for none")
		return 0, false
	}
	return r.duration(n, least)
}

// negative reports whether a text would be a duration without its sign.
func negative(text string) bool {
	size, signed := strings.CutPrefix(text, "-")
	_, err := duration.Parse(size)
	return signed && err == nil
}

// rate reads a rate; 0 may be a number.
func (r *reader) rate(n *yaml.Node) (jobs.Rate, bool) {
	value, ok := r.text(n)
	if !ok {
		return jobs.Rate{}, false
	}
	rate, err := jobs.ParseRate(value)
	if err != nil { // it quotes the value, which may be a secret
		const no = " is not a rate"
		why := err.Error()
		problem, hint, _ := strings.Cut(why[strings.LastIndex(why, no):], "; ")
		r.fail(deref(n), quote(n)+problem, hint)
		return jobs.Rate{}, false
	}
	return rate, true
}

// moment reads a time with its offset from UTC.
func (r *reader) moment(n *yaml.Node) (time.Time, bool) {
	value, ok := r.text(n)
	if !ok {
		return time.Time{}, false
	}
	at, err := time.Parse(time.RFC3339, value)
	if err != nil || at.IsZero() { // zero is no bound, and nobody means it
		r.fail(deref(n), quote(n)+" is not a time", "write it with its offset from UTC, as in 2026-12-24T18:00:00+01:00, or with Z for UTC")
		return time.Time{}, false
	}
	return at, true
}

// size reads a number of bytes, as in 64KiB.
func (r *reader) size(n *yaml.Node) (int, bool) {
	value, ok := r.text(n)
	if !ok {
		return 0, false
	}
	const hint = "write it as in 512KiB, 64MiB or 2GiB"
	digits := strings.TrimRight(value, "BKMGi")
	unit, known := map[string]int{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[value[len(digits):]]
	count, err := strconv.Atoi(digits)
	switch {
	case !known || err != nil || count < 0 || digits[0] == '+':
		r.fail(deref(n), quote(n)+" is not a size", hint)
	case count == 0:
		r.fail(deref(n), quote(n)+" must be more than 0", hint)
	case count > 1<<20:
		r.fail(deref(n), quote(n)+" is too large", hint)
	default:
		return count * unit, true
	}
	return 0, false
}

// percent reads a share, as in 50%.
func (r *reader) percent(n *yaml.Node) (int, bool) {
	value, ok := r.text(n)
	if !ok {
		return 0, false
	}
	digits, is := strings.CutSuffix(value, "%")
	share, err := strconv.Atoi(digits)
	if !is || err != nil || share < 1 || share > 100 {
		r.fail(deref(n), quote(n)+" is not a share", "write it as in 50%, from 1% to 100%")
		return 0, false
	}
	return share, true
}

// field reads a value with get, and puts it into its place if it is right.
func field[T, V any](get func(*reader, *yaml.Node) (V, bool), place func(*T) *V) read[T] {
	return func(r *reader, n *yaml.Node, into *T) {
		if value, ok := get(r, n); ok {
			*place(into) = value
		}
	}
}

func textField[T any](place func(*T) *string) read[T] { return field((*reader).text, place) }

func rawField[T any](place func(*T) *string) read[T] { return field((*reader).raw, place) }

func flagField[T any](place func(*T) *bool) read[T] { return field((*reader).flag, place) }

func numberField[T any](low, high int, place func(*T) *int) read[T] {
	return field(func(r *reader, n *yaml.Node) (int, bool) { return r.number(n, low, high) }, place)
}

// positive is the minimum of durations that must be more than 0.
const positive = time.Nanosecond

func durationField[T any](least time.Duration, place func(*T) *time.Duration) read[T] {
	return field(func(r *reader, n *yaml.Node) (time.Duration, bool) { return r.duration(n, least) }, place)
}

func delayField[T any](least time.Duration, place func(*T) *time.Duration) read[T] {
	return field(func(r *reader, n *yaml.Node) (time.Duration, bool) { return r.delay(n, least) }, place)
}

func momentField[T any](place func(*T) *time.Time) read[T] { return field((*reader).moment, place) }

func rateField[T any](place func(*T) *jobs.Rate) read[T] { return field((*reader).rate, place) }

// choiceField reads one of values.
func choiceField[T any, S ~string](values []S, place func(*T) *S) read[T] {
	return field(func(r *reader, n *yaml.Node) (S, bool) { return choice(r, n, values) }, place)
}

func choice[S ~string](r *reader, n *yaml.Node, values []S) (S, bool) {
	value, ok := r.text(n)
	if !ok || slices.Contains(values, S(value)) {
		return S(value), ok
	}
	known := make([]string, len(values))
	for i, v := range values {
		known[i] = string(v)
	}
	hint := "allowed: " + strings.Join(known, ", ")
	if k := nearest.Key(value, known); k != "" && !strings.Contains(deref(n).Value, "$") {
		hint = fmt.Sprintf("did you mean %q?", k)
	}
	r.fail(deref(n), quote(n)+" is unknown", hint)
	return "", false
}

// listField reads a list of texts, or none.
func listField[T any](place func(*T) *[]string) read[T] {
	return field(func(r *reader, n *yaml.Node) ([]string, bool) { return r.texts(n, r.text), true }, place)
}

// texts reads a list of scalars, each with read.
func (r *reader) texts(n *yaml.Node, read func(*yaml.Node) (string, bool)) []string {
	list := make([]string, 0, len(deref(n).Content))
	r.items(n, func(item *yaml.Node) {
		if value, ok := read(item); ok {
			list = append(list, value)
		}
	})
	return list
}

// mapField reads a map of texts and merges it key by key.
func mapField[T any](place func(*T) *map[string]string) read[T] {
	return func(r *reader, n *yaml.Node, into *T) {
		old := *place(into)
		whole := make(map[string]string, len(old)+len(deref(n).Content)/2)
		maps.Copy(whole, old)
		r.each(n, func(key, value *yaml.Node) {
			if text, ok := r.text(value); ok {
				whole[key.Value] = text
			}
		})
		*place(into) = whole
	}
}
