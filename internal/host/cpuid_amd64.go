package host

// AskCPUID executes CPUID. Its traps cost microseconds under a hypervisor: never beside a measurement.
func AskCPUID(leaf, sub uint32) (eax, ebx, ecx, edx uint32)
