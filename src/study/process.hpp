// The name of the process that runs a cell, by which others can tell whether that process still lives.
//
// WAL stores work between processes of one kernel only, so a claim of another boot is of a dead process, and
// so is one whose process id is free or was given to a process that started at another time.
#pragma once

#include <string>

namespace headlens {

std::string host_name();
std::string boot_id();                           // of the kernel: no two machines have the same
std::string this_process();                      // "BOOT-ID PID START-TIME"
bool is_alive(const std::string& process_text);  // of a this_process() text; false if it is none

}  // namespace headlens
