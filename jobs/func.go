package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"runtime"
	"strings"
)

// HandlerFunc is a function that is a Handler, as middleware returns it (see [Wrap]); [Func] decodes the
// payload as well.
type HandlerFunc func(ctx context.Context, t Task, out io.Writer) error

func (f HandlerFunc) Run(ctx context.Context, t Task, out io.Writer) error { return f(ctx, t, out) }

// Describe names the function, as that of [Func] does, and is "func literal" for a function literal.
func (f HandlerFunc) Describe() string { return "func " + funcName(reflect.ValueOf(f)) }

// Func makes a Handler of a Go function. The task's payload is decoded from JSON into a P, as
// [json.Unmarshal] does it: unknown fields are ignored, so that programs of two versions can run side
// by side. A task without payload, or with the payload null, gets the zero P, which is nil where P
// is a pointer. A payload that does not fit a P will not fit it next time, so the task fails without
// further attempts, as by [Permanent]; the error names the kind, the P, and what is wrong. A P of
// json.RawMessage takes the payload as it is.
//
// A method value (shop.sendReceipt) brings along what the function needs. Take it of a pointer where it stands in several places: one
// of an interface hides what it is a method of, so that [Set.Validate] refuses two of them, even of one value.
//
// A function or a method counts with its name in the hash of a job or pool, so that replicas notice when it is
// another one. A function literal has no name of its own: what the compiler calls it depends on what stands
// around it, and on what is inlined. So of a literal, and of what it captures, nothing counts but the payload's type:
// whatever literal stands in a job, or under a kind, is the same to other replicas. [Named] gives it an identity. Func(nil) is nil, which
// [Set.Validate] reports as a missing handler.
func Func[P any](fn func(context.Context, Task, P) error) Handler {
	if fn == nil {
		return nil
	}
	return function[P](fn)
}

type function[P any] func(context.Context, Task, P) error

func (f function[P]) Run(ctx context.Context, t Task, _ io.Writer) error {
	var payload P
	if len(t.Payload) > 0 {
		if err := json.Unmarshal(t.Payload, &payload); err != nil {
			return Permanent(fmt.Errorf("the payload of %s does not fit %v: %w", origin(t), reflect.TypeFor[P](), err))
		}
	}
	return f(ctx, t, payload)
}

// origin says for people what made a task.
func origin(t Task) string {
	switch {
	case t.Job != "":
		return fmt.Sprintf("job %.80q", t.Job)
	case t.Kind != "":
		return fmt.Sprintf("kind %.80q of pool %.80q", t.Kind, t.Pool)
	}
	return fmt.Sprintf("pool %.80q", t.Pool)
}

// Describe names the function, and the payload's type: "func main.send(main.Letter)", or "func literal(main.Letter)".
func (f function[P]) Describe() string {
	return fmt.Sprintf("func %s(%v)", funcName(reflect.ValueOf(f)), reflect.TypeFor[P]())
}

// funcName is the same in whatever way the program was compiled.
func funcName(f reflect.Value) string {
	switch fn := runtime.FuncForPC(f.Pointer()); {
	case fn == nil:
		return "?"
	case isLiteral(fn):
		return "literal"
	default:
		return fn.Name()
	}
}

// isOfLiteral reports whether an identity is the description of a function literal, which is none.
func isOfLiteral(identity string) bool {
	return identity == "func literal" || strings.HasPrefix(identity, "func literal(")
}

// madeOf is what the compiler calls a literal after its package: by what it stands in, or that was inlined into.
// A method value of a method func1 ends with "-fm".
var madeOf = regexp.MustCompile(`\.func[0-9]+(\.|-range|$)`)

// isLiteral reports whether f has no name of its own.
func isLiteral(f *runtime.Func) bool {
	_, name, _ := strings.Cut(f.Name()[strings.LastIndex(f.Name(), "/")+1:], ".")
	return madeOf.MatchString(name)
}
