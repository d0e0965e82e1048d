# Flags of every target. PERIGEE_SANITIZE is empty, "address,undefined" or "thread"; PERIGEE_FUZZ builds libFuzzer targets (clang).
set(PERIGEE_SANITIZE "" CACHE STRING "sanitizers for every target")
option(PERIGEE_FUZZ "build libFuzzer targets (clang only)" OFF)
option(PERIGEE_MARKS "count mark() hits (tests and simulation)" ON)
option(PERIGEE_DENY "every authorisation question is answered no (test build)" OFF)

set(CMAKE_C_STANDARD 23)                  # falls back to -std=gnu2x where the compiler calls it that
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_C_FLAGS_RELEASE "-O2 -g1")
set(CMAKE_C_FLAGS_DEBUG "-Og -g -DPERIGEE_DEBUG=1")

add_compile_definitions(_GNU_SOURCE)
if(PERIGEE_MARKS AND NOT CMAKE_BUILD_TYPE STREQUAL "Release")
    add_compile_definitions(PERIGEE_MARKS=1)
endif()
if(PERIGEE_DENY)
    add_compile_definitions(PERIGEE_DENY=1)
endif()
if(PERIGEE_SANITIZE)
    add_compile_options(-fsanitize=${PERIGEE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    add_link_options(-fsanitize=${PERIGEE_SANITIZE})
endif()
if(PERIGEE_FUZZ)
    add_compile_options(-fsanitize=fuzzer-no-link)
endif()

add_library(perigee_flags INTERFACE)
target_compile_options(perigee_flags INTERFACE
    $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wconversion -Wshadow -Wmissing-prototypes -Wswitch -Wvla -Werror>
    -fno-strict-aliasing -fstack-protector-strong)
