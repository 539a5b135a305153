package heap

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"
)

// Shed releases what only the start of a process needed: garbage, and pages of the program itself. Starting runs the initialization of
// every package, including cloud SDKs, and so maps half of a large program, of which an agent then uses a small part. Pages that are used
// again come back from the page cache within microseconds. If something fails they stay.
func Shed() {
	debug.FreeOSMemory()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return
	}
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(maps)) {
		if !strings.HasSuffix(strings.TrimSpace(line), " "+program) {
			continue
		}
		var begin, end uintptr
		var mode string
		n, _ := fmt.Sscanf(line, "%x-%x %s", &begin, &end, &mode)
		if n == 3 && !strings.Contains(mode, "w") { // written data would be lost
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, begin, end-begin, unix.MADV_DONTNEED)
		}
	}
}
