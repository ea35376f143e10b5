// Package unwrap looks into handlers that surround each other, as package errors looks into errors. H is jobs.Handler.
package unwrap

import "github.com/lockstep-scheduler/lockstep/internal/nilcheck"

// Wrapper is jobs.Wrapper.
type Wrapper[H any] interface{ Unwrap() H }

// As finds what h is beside an H: h itself if it is a T, else what it surrounds.
func As[T, H any](h H) (found T, ok bool) {
	for range deepest {
		if nilcheck.IsNil(h) {
			break
		}
		if found, ok = any(h).(T); ok {
			return found, true
		}
		h, _ = once(h)
	}
	return found, false
}

// Innermost is what h surrounds in the end, h itself if that is nothing.
func Innermost[H any](h H) H {
	for range deepest {
		inner, more := once(h)
		if !more {
			break
		}
		h = inner
	}
	return h
}

// Endless reports whether h surrounds itself, so that nothing is innermost.
func Endless[H any](h H) bool {
	_, more := once(Innermost(h))
	return more
}

// deepest is how many handlers are looked for within each other. Where there are more, one surrounds itself.
const deepest = 1000

func once[H any](h H) (inner H, ok bool) {
	if around, ok := any(h).(Wrapper[H]); ok && !nilcheck.IsNil(h) {
		return around.Unwrap(), true
	}
	return inner, false
}
