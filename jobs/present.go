package jobs

import "reflect"

// present reports whether h can be run, and says what is wrong if not.
func (p *problems) present(path string, h Handler) bool {
	switch inner := innermost(h); {
	case endless(h):
		p.add(path, "has a handler that surrounds itself; the Unwrap of a %T must return the handler in it", inner)
	case inner == nil:
		p.add(path, "has no handler; give it one, or remove it")
	case isNil(inner):
		p.add(path, "has a handler that is a nil %T; give it one that is not, or remove it", inner)
	default:
		return true
	}
	return false
}

// missing reports whether there is nothing to run: h is nil, or what it surrounds, or h surrounds itself.
func missing(h Handler) bool { return isNil(innermost(h)) || endless(h) }

// isNil reports whether h is nil, or a nil pointer or function in a Handler that is not.
func isNil(h Handler) bool {
	v := reflect.ValueOf(h)
	return !v.IsValid() || (v.Kind() == reflect.Pointer || v.Kind() == reflect.Func) && v.IsNil()
}
