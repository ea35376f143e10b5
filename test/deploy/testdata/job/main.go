// Command job stands for a user's program in an image: it says who and where it is, and tries to
// write where it should not be able to.
package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

func main() {
	payload, _ := io.ReadAll(os.Stdin)
	fmt.Printf("uid %d, task %s, payload %s\n", os.Getuid(), os.Getenv("LOCKSTEP_TASK_ID"), payload)
	for _, path := range []string{"/written", "/etc/lockstep/written", "/tmp/written", "written"} {
		err := os.WriteFile(path, nil, 0o600)
		fmt.Printf("%s: %v\n", path, err)
	}
	if _, err := os.Stat("/usr/share/zoneinfo"); err == nil {
		fmt.Println("there are zone files")
	}
	if len(os.Args) > 1 && os.Args[1] == "wait" {
		time.Sleep(2 * time.Second)
		fmt.Println("waited")
	}
}
