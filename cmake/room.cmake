# room(NAME [DIR dir] [NEEDS lower...] [HIDES lower...] [LIBS external...])
#
# A room is a static library of all *.c in its folder. Its public headers live in include/<name>/ and are written
# #include "name/thing.h"; headers beside the .c are private. NEEDS links PUBLIC (their headers show through), HIDES links
# PRIVATE (an upper room cannot reach them), so an upward, sideways or reach-through include dies as "No such file".
# <uv.h> sits in the system's folder, where link visibility cannot hide it: cmake/guard/uv.h comes first everywhere but in port_uv.
function(room NAME)
    cmake_parse_arguments(R "" "DIR" "NEEDS;HIDES;LIBS;GENERATED" ${ARGN})
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.c)
    list(APPEND sources ${R_GENERATED})
    if(NOT sources)
        set(sources ${PROJECT_SOURCE_DIR}/cmake/guard/empty.c)
    endif()
    add_library(${NAME} STATIC ${sources})
    target_include_directories(${NAME} PUBLIC ${CMAKE_CURRENT_SOURCE_DIR}/include)
    if(NOT NAME STREQUAL "port_uv")
        target_include_directories(${NAME} BEFORE PRIVATE ${PROJECT_SOURCE_DIR}/cmake/guard)
    endif()
    target_link_libraries(${NAME} PUBLIC ${R_NEEDS} PRIVATE ${R_HIDES} ${R_LIBS} perigee_flags)
endfunction()

# room_tests(ROOM): tests/unit/<room>/test_*.c, one program per file, linking that room whole and what lies below it.
# Extra libraries may follow. A test sees the room's private headers.
function(room_tests ROOM)
    file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${ROOM}/test_*.c)
    foreach(source ${tests})
        get_filename_component(stem ${source} NAME_WE)
        set(target ${ROOM}_${stem})
        add_executable(${target} ${source})
        get_target_property(room_dir ${ROOM} SOURCE_DIR)
        target_include_directories(${target} PRIVATE ${room_dir} ${CMAKE_CURRENT_SOURCE_DIR})
        target_link_libraries(${target} PRIVATE ${ROOM} ${ARGN} perigee_flags PkgConfig::CHECK)
        add_test(NAME ${ROOM}.${stem} COMMAND ${target})
        set_tests_properties(${ROOM}.${stem} PROPERTIES TIMEOUT 400 LABELS unit)
    endforeach()
endfunction()
