// Package deploy checks deploy/ and docs/operations.md, as far as possible without a container engine. Checks that need
// other parsers are in test/manifests.
package deploy

import (
	"os"
	"testing"

	"github.com/lockstep-scheduler/lockstep/test/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

// static builds a program without C, as the Dockerfile does.
const static = "CGO_ENABLED=0"
