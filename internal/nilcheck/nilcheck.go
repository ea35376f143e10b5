// Package nilcheck finds what was not given.
package nilcheck

import "reflect"

// IsNil reports whether v is nil, or an interface that holds a nil pointer or function, as the field of a program
// that has no such part does.
func IsNil(v any) bool {
	value := reflect.ValueOf(v)
	return !value.IsValid() || (value.Kind() == reflect.Pointer || value.Kind() == reflect.Func) && value.IsNil()
}
