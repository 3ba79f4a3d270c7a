// Package rack is a virtual rack: QEMU machines that are off until somebody wakes them, with NICs, disks, BMCs and
// consoles, in a network namespace of their own. It is for evaluation, training and tests.
//
// What enters: how many machines of which kind. What leaves: a network to boot them on, a list of them as an operator
// would get it from a vendor (rack.csv), and faults on demand. Nothing of it outlives Down.
package rack
