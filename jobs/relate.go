package jobs

import (
	"reflect"
	"runtime"
	"strings"

	"github.com/lockstep-scheduler/lockstep/internal/nilcheck"
	"github.com/lockstep-scheduler/lockstep/internal/unwrap"
)

// relation is what can be said of two handlers without running them.
type relation int

const (
	same relation = iota
	unclear
	different
)

// relate compares handlers by what they say, and by the code in them; state is not looked at, as
// others may be writing it. Descriptions are believed, as far as no code contradicts them.
func relate(a, b Handler) relation {
	one, identified := unwrap.As[Identified](a)
	other, both := unwrap.As[Identified](b)
	switch {
	case identified != both || identified && one.Identity() != other.Identity():
		return different
	case identified:
		x, _ := one.(named)
		y, _ := other.(named)
		if relate(x.inner, y.inner) == different {
			return different
		}
		return same
	}
	a, b = unwrap.Innermost(a), unwrap.Innermost(b)
	switch none := nilcheck.IsNil(a); {
	case reflect.TypeOf(a) != reflect.TypeOf(b) || none != nilcheck.IsNil(b):
		return different
	case none:
		return same
	}
	x, y := addressable(reflect.ValueOf(a)), addressable(reflect.ValueOf(b))
	says, isDescribed := a.(Described)
	if isDescribed && says.Describe() != b.(Described).Describe() {
		return different
	}
	if x.Kind() == reflect.Pointer {
		switch {
		case x.Pointer() == y.Pointer():
			return same
		case !isDescribed:
			return unclear
		}
		x, y = x.Elem(), y.Elem()
	}
	return relateValues(x, y, isDescribed)
}

// relateValues compares two values of one type that have an address; of what is described, the code
// alone.
func relateValues(x, y reflect.Value, described bool) relation {
	switch {
	case x.Kind() == reflect.Func:
		return relateFuncs(x, y)
	case x.Kind() == reflect.Struct:
		worst := same
		for i := range x.NumField() {
			worst = max(worst, relateFields(x.Field(i), y.Field(i), described))
		}
		return worst
	case described || x.Comparable() && x.Equal(y):
		return same
	}
	return unclear
}

func relateFields(x, y reflect.Value, described bool) relation {
	if !x.Type().Implements(reflect.TypeFor[Handler]()) {
		return relateValues(x, y, described)
	}
	return relate(held(x), held(y))
}

// held is the handler in a field, which need not be exported.
func held(field reflect.Value) Handler {
	h, _ := reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem().Interface().(Handler)
	return h
}

// addressable is a copy of v that has an address.
func addressable(v reflect.Value) reflect.Value {
	c := reflect.New(v.Type()).Elem()
	c.Set(v)
	return c
}

// relateFuncs compares functions of one type. Literals have no identity that could be wrong, see [Func]. What a function captures cannot be seen, but for the
// receiver of a method value (shop.sendReceipt) where that is a pointer: it lies behind the address of
// the code, in what Go's own compiler makes.
func relateFuncs(x, y reflect.Value) relation {
	one, other := runtime.FuncForPC(x.Pointer()), runtime.FuncForPC(y.Pointer())
	switch {
	case isLiteral(one) && isLiteral(other): // whether they are one depends on what was inlined
		return same
	case x.Pointer() != y.Pointer():
		return different
	}
	a := *(**[2]uintptr)(x.Addr().UnsafePointer()) // a function value is the address of its code's address
	b := *(**[2]uintptr)(y.Addr().UnsafePointer())
	if a == b {
		return same
	}
	if runtime.Compiler != "gc" || !strings.Contains(one.Name(), ".(*") || !strings.HasSuffix(one.Name(), "-fm") {
		return unclear
	}
	if a[1] != b[1] {
		return different
	}
	return same
}
