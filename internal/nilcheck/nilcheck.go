// Package nilcheck finds missing arguments.
package nilcheck

import "reflect"

// IsNil reports whether v is nil, or an interface that holds a nil pointer or function, as an unset field does.
func IsNil(v any) bool {
	value := reflect.ValueOf(v)
	return !value.IsValid() || (value.Kind() == reflect.Pointer || value.Kind() == reflect.Func) && value.IsNil()
}
