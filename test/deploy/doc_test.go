// Package deploy holds deploy/ and docs/operations.md to what they say, as far as that can be seen
// on a machine without a container engine. What needs other people's parsers is in test/manifests.
package deploy

import (
	"os"
	"testing"

	"github.com/lockstep-scheduler/lockstep/test/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

// static builds a program without C, as the Dockerfile does.
const static = "CGO_ENABLED=0"
