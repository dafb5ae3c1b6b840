// The stand-in for NVRTC (libnvrtc.so): compiles a kernel's text with the host's C++ compiler. Its CUBIN is the shared object that
// comes out. The headers that the text needs are in `include` next to this library. Its version is that of its file's name
// (libnvrtc.so.12.4), else 13.0.
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

// The compiler that built this library.
#ifndef OPERANT_HOST_CXX
#define OPERANT_HOST_CXX "g++"
#endif

extern char** environ;

enum nvrtcResult : unsigned {
    NVRTC_SUCCESS = 0,
    NVRTC_ERROR_PROGRAM_CREATION_FAILURE = 2,
    NVRTC_ERROR_INVALID_INPUT = 3,
    NVRTC_ERROR_INVALID_PROGRAM = 4,
    NVRTC_ERROR_INVALID_OPTION = 5,
    NVRTC_ERROR_COMPILATION = 6,
    NVRTC_ERROR_INTERNAL_ERROR = 11,
};

struct Program {
    std::string source, name;
    std::vector<std::pair<std::string, std::string>> headers;  // name and text
    std::string log, code;
};
using nvrtcProgram = Program*;

namespace {

namespace files = std::filesystem;

constexpr int ARCHITECTURES[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};

std::mutex mutex;
std::set<Program*>& programs() {
    static auto* all = new std::set<Program*>;
    return *all;
}

bool is_live(Program* program) {
    const std::lock_guard<std::mutex> lock(mutex);
    return programs().count(program) != 0;
}

bool starts_with(const std::string& text, const char* start) { return text.rfind(start, 0) == 0; }

// Options of the real compiler that mean nothing here, by what they start with.
constexpr const char* IGNORED[] = {
    "--std=", "-std=", "--ptxas-options", "-Xptxas", "--fmad=", "-fmad=", "--extra-device-vectorization",
    "-extra-device-vectorization", "--generate-line-info", "-lineinfo", "--maxrregcount=", "--default-device",
    "-default-device", "--device-debug", "-G", "--restrict", "-restrict", "--diag-suppress=", "-diag-suppress=",
    "--no-display-error-number", "-no-display-error-number", "--display-error-number", "--disable-warnings", "-w",
    "--builtin-initializer-list=", "--dopt", "-dopt", "--split-compile=", "--minimal", "-minimal", "--ftz=", "-ftz=",
    "--prec-sqrt=", "-prec-sqrt=", "--prec-div=", "-prec-div=", "--relocatable-device-code=", "-rdc=",
    "--no-source-include", "--device-int128",
};

// Takes the definitions from the options; the first that NVRTC would not accept goes to the log.
nvrtcResult read_options(Program& program, int count, const char* const* options, std::vector<std::string>& defines) {
    for (int i = 0; i < count; ++i) {
        std::string option = options[i] ? options[i] : "";
        // An option's value may be a separate argument.
        const bool apart = option == "-D" || option == "-U" || option == "--define-macro" || option == "--gpu-architecture" ||
                           option == "-arch" || option == "--ptxas-options" || option == "-Xptxas";
        if (apart && i + 1 < count) option += (option[1] == '-' || option == "-arch" ? "=" : "") + std::string(options[++i]);
        if (starts_with(option, "--define-macro=")) option = "-D" + option.substr(strlen("--define-macro="));
        if (starts_with(option, "-D") || starts_with(option, "-U")) {
            defines.push_back(option);
            continue;
        }
        if (starts_with(option, "--gpu-architecture=") || starts_with(option, "-arch=")) {
            const std::string value = option.substr(option.find('=') + 1);
            const int number = starts_with(value, "sm_") ? atoi(value.c_str() + 3) : 0;
            if (std::find(std::begin(ARCHITECTURES), std::end(ARCHITECTURES), number) != std::end(ARCHITECTURES)) continue;
            program.log = "nvrtc: error: invalid value for --gpu-architecture (-arch)\n";
            return NVRTC_ERROR_INVALID_OPTION;
        }
        const bool known = std::any_of(std::begin(IGNORED), std::end(IGNORED),
                                       [&](const char* start) { return starts_with(option, start); });
        if (!known) {
            program.log = "nvrtc: error: unrecognized option " + option + " found\n";
            return NVRTC_ERROR_INVALID_OPTION;
        }
    }
    return NVRTC_SUCCESS;
}

// A temporary directory, removed with its contents.
struct Scratch {
    files::path path;
    Scratch() {
        std::error_code error;
        std::string text = (files::temp_directory_path(error) / "operant-nvrtc-XXXXXX").string();
        if (!error && mkdtemp(text.data())) path = text;
    }
    ~Scratch() {
        std::error_code ignored;
        if (!path.empty()) files::remove_all(path, ignored);
    }
};

// The text under that name in the directory, but never outside it.
bool write_text(const files::path& directory, const std::string& name, const std::string& text) {
    const files::path relative = files::path(name).lexically_normal();
    if (relative.empty() || relative.is_absolute() || *relative.begin() == "..") return false;
    std::error_code error;
    files::create_directories((directory / relative).parent_path(), error);
    std::ofstream file(directory / relative, std::ios::binary);
    file << text;
    return !error && file.flush().good();
}

std::string read_text(const files::path& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
}

// Runs the command in the directory with its output in `log` there; the exit status, or -1 when it cannot be run.
int run(const files::path& directory, const std::vector<std::string>& command) {
    std::vector<char*> arguments, environment;
    for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    // A sanitizer that this process was started under is not the compiler's.
    for (char** variable = environ; *variable; ++variable) {
        if (strncmp(*variable, "LD_PRELOAD=", 11) != 0) environment.push_back(*variable);
    }
    environment.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, (directory / "log").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    posix_spawn_file_actions_addchdir_np(&actions, directory.c_str());
    pid_t child = 0;
    const int failure = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environment.data());
    posix_spawn_file_actions_destroy(&actions);
    if (failure != 0) return -1;
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) return -1;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// This library's file.
files::path own_file() {
    Dl_info info = {};
    if (!dladdr(reinterpret_cast<void*>(&own_file), &info) || !info.dli_fname) return {};
    std::error_code error;
    return files::canonical(info.dli_fname, error);
}

// 13000 for 13.0.
int own_version() {
    int major = 13, minor = 0;
    if (sscanf(own_file().filename().c_str(), "libnvrtc.so.%d.%d", &major, &minor) != 2) major = 13, minor = 0;
    return 1000 * major + 10 * minor;
}

files::path include_directory() { return own_file().parent_path() / "include"; }

// The compiler with the options that every program has in common.
std::vector<std::string> compiler() {
    std::vector<std::string> command = {
        OPERANT_HOST_CXX, "-std=c++17", "-ffp-contract=off", "-fPIC", "-fno-gnu-unique", "-fno-exceptions", "-Wall",
        "-Wno-unknown-pragmas", "-Wno-unused-function", "-Wno-unused-const-variable", "-Wno-maybe-uninitialized", "-g1",
        "-DOPERANT_HOST_COMPILER=" + std::to_string(own_version()), "-I", include_directory().string(),
    };
#ifdef __SANITIZE_ADDRESS__
    command.insert(command.end(), {"-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
                                   "-fno-omit-frame-pointer"});
#else
    command.push_back("-O1");  // programs of the tests take about as long to compile as to run
#endif
#ifdef __x86_64__
    // One instruction for fmaf; the result is the same without.
    if (__builtin_cpu_supports("fma")) command.push_back("-mfma");
#endif
    return command;
}

// Compiles the header once for all programs and processes. Where that fails, the compiler reads the text again for every program.
void precompile_header() {
    const files::path text = include_directory() / "cuda_on_host.h", all = text.string() + ".gch";
    const files::path one = all / std::to_string(own_version());
    const files::path mine = text.string() + ".of-" + std::to_string(getpid());  // not in `all`, where the compiler would find it unfinished
    std::error_code error;
    if (files::exists(one, error)) return;
    files::create_directory(all, error);
    std::vector<std::string> command = compiler();
    command.insert(command.end(), {"-x", "c++-header", text.string(), "-o", mine.string()});
    const Scratch scratch;
    if (!scratch.path.empty() && run(scratch.path, command) == 0) files::rename(mine, one, error);
    files::remove(mine, error);
}

std::vector<std::string> command_for(const Program& program, const std::vector<std::string>& defines) {
    static std::once_flag once;
    std::call_once(once, precompile_header);
    std::vector<std::string> command = compiler();
    command.insert(command.end(), defines.begin(), defines.end());
    command.insert(command.end(), {"-shared", "-I", ".", "-include", "cuda_on_host.h", "-x", "c++", program.name, "-o", "code.so"});
    return command;
}

nvrtcResult copy_out(const std::string& text, bool with_zero, char* to) {
    if (!to) return NVRTC_ERROR_INVALID_INPUT;
    memcpy(to, text.c_str(), text.size() + with_zero);
    return NVRTC_SUCCESS;
}

}  // namespace

EXPORT nvrtcResult nvrtcVersion(int* major, int* minor) {
    if (!major || !minor) return NVRTC_ERROR_INVALID_INPUT;
    *major = own_version() / 1000;
    *minor = own_version() % 1000 / 10;
    return NVRTC_SUCCESS;
}

EXPORT nvrtcResult nvrtcGetNumSupportedArchs(int* count) {
    if (!count) return NVRTC_ERROR_INVALID_INPUT;
    *count = (int)std::size(ARCHITECTURES);
    return NVRTC_SUCCESS;
}

EXPORT nvrtcResult nvrtcGetSupportedArchs(int* architectures) {
    if (!architectures) return NVRTC_ERROR_INVALID_INPUT;
    std::copy(std::begin(ARCHITECTURES), std::end(ARCHITECTURES), architectures);
    return NVRTC_SUCCESS;
}

EXPORT nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* source, const char* name, int count,
                                      const char* const* texts, const char* const* names) {
    if (!program || !source || count < 0 || (count > 0 && (!texts || !names))) return NVRTC_ERROR_INVALID_INPUT;
    Program* made = new Program;
    made->source = source;
    made->name = name && *name ? name : "default_program";
    for (int i = 0; i < count; ++i) made->headers.emplace_back(names[i], texts[i]);
    const std::lock_guard<std::mutex> lock(mutex);
    programs().insert(made);
    *program = made;
    return NVRTC_SUCCESS;
}

EXPORT nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
    if (!program) return NVRTC_ERROR_INVALID_INPUT;
    const std::lock_guard<std::mutex> lock(mutex);
    if (programs().erase(*program) == 0) return NVRTC_ERROR_INVALID_PROGRAM;
    delete *program;
    *program = nullptr;
    return NVRTC_SUCCESS;
}

EXPORT nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char* const* options) {
    if (!is_live(program)) return NVRTC_ERROR_INVALID_PROGRAM;
    if (count < 0 || (count > 0 && !options)) return NVRTC_ERROR_INVALID_INPUT;
    program->log.clear();
    program->code.clear();
    std::vector<std::string> defines;
    if (const nvrtcResult bad = read_options(*program, count, options, defines); bad != NVRTC_SUCCESS) return bad;
    const Scratch scratch;
    if (scratch.path.empty()) {
        program->log = "no temporary directory for the host's compiler; set TMPDIR\n";
        return NVRTC_ERROR_INTERNAL_ERROR;
    }
    bool written = write_text(scratch.path, program->name, program->source);
    for (const auto& [name, text] : program->headers) written &= write_text(scratch.path, name, text);
    if (!written) {
        program->log = "the program or a header cannot be written to " + scratch.path.string() + "\n";
        return NVRTC_ERROR_PROGRAM_CREATION_FAILURE;
    }
    const int status = run(scratch.path, command_for(*program, defines));
    program->log = read_text(scratch.path / "log");
    if (status < 0) {
        program->log += "the host's compiler " OPERANT_HOST_CXX " cannot be run\n";
        return NVRTC_ERROR_INTERNAL_ERROR;
    }
    if (status != 0) return NVRTC_ERROR_COMPILATION;
    program->code = read_text(scratch.path / "code.so");
    return program->code.empty() ? NVRTC_ERROR_INTERNAL_ERROR : NVRTC_SUCCESS;
}

EXPORT nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t* size) {
    if (!is_live(program)) return NVRTC_ERROR_INVALID_PROGRAM;
    if (!size) return NVRTC_ERROR_INVALID_INPUT;
    *size = program->log.size() + 1;
    return NVRTC_SUCCESS;
}

EXPORT nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log) {
    return is_live(program) ? copy_out(program->log, true, log) : NVRTC_ERROR_INVALID_PROGRAM;
}

EXPORT nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t* size) {
    if (!is_live(program)) return NVRTC_ERROR_INVALID_PROGRAM;
    if (!size) return NVRTC_ERROR_INVALID_INPUT;
    *size = program->code.size();
    return NVRTC_SUCCESS;
}

EXPORT nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* code) {
    return is_live(program) ? copy_out(program->code, false, code) : NVRTC_ERROR_INVALID_PROGRAM;
}

EXPORT const char* nvrtcGetErrorString(unsigned result) {
    static constexpr const char* NAMES[] = {
        "NVRTC_SUCCESS", "NVRTC_ERROR_OUT_OF_MEMORY", "NVRTC_ERROR_PROGRAM_CREATION_FAILURE", "NVRTC_ERROR_INVALID_INPUT",
        "NVRTC_ERROR_INVALID_PROGRAM", "NVRTC_ERROR_INVALID_OPTION", "NVRTC_ERROR_COMPILATION",
        "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE", "NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION",
        "NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION", "NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID",
        "NVRTC_ERROR_INTERNAL_ERROR",
    };
    return result < std::size(NAMES) ? NAMES[result] : "NVRTC_ERROR unknown";
}
