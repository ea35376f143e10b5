//go:build unix && !linux

package trustedfile

import "os"

// hasACL: on other systems the bits of the group do not limit an ACL.
func hasACL(*os.File) bool { return false }

func hasACLAt(string) bool { return false }
