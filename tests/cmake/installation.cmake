# cmake -DBUILD=FOLDER -DTO=FOLDER -P installation.cmake
#   Installs the program, moves all of it, and checks that it is whole and uses its own data.
cmake_minimum_required(VERSION 3.22)
function(run out)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env --unset=RIGCAST_DATA XDG_DATA_HOME=${TO}/none
                          ${ARGN} OUTPUT_VARIABLE text ERROR_VARIABLE error RESULT_VARIABLE code)
  set(${out} "${code}: ${text}${error}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${TO} ${TO}-moved)
run(done ${CMAKE_COMMAND} --install ${BUILD} --prefix ${TO} --component program)
if(NOT done MATCHES "^0: ")
  message(FATAL_ERROR "${done}")
endif()
file(RENAME ${TO} ${TO}-moved)

set(share ${TO}-moved/share)
foreach(file bin/rigcast share/rigcast/hwprofiles/gpus/rtx-4090.toml share/rigcast/models
             share/rigcast/runtimes/llama.cpp.toml share/rigcast/loads/chat.toml
             share/rigcast/examples/suites/quick.toml share/rigcast/scripts/run_transformers.py
             share/bash-completion/completions/rigcast share/zsh/site-functions/_rigcast
             share/fish/vendor_completions.d/rigcast.fish share/man/man1/rigcast.1
             share/man/man1/rigcast-simulate.1 share/doc/rigcast/copyright
             share/doc/rigcast/CHANGELOG.md share/doc/rigcast/docs/report.md)
  if(NOT EXISTS ${TO}-moved/${file} AND NOT EXISTS ${TO}-moved/${file}.gz)
    message(SEND_ERROR "not installed: ${file}")
  endif()
endforeach()

set(question simulate --gpu rtx-4090 --model llama-3.2-1b --context 2048 --no-advice --format json)
run(built ${BUILD}/rigcast ${question})
run(installed ${TO}-moved/bin/rigcast ${question})
if(NOT built MATCHES "^0: " OR NOT installed STREQUAL built)
  message(SEND_ERROR "the installed program says:\n${installed}")
endif()
# Its own data, not the source tree's.
file(REMOVE ${share}/rigcast/hwprofiles/gpus/rtx-4090.toml)
run(without ${TO}-moved/bin/rigcast ${question})
if(NOT without MATCHES "^2: .*no GPU named")
  message(SEND_ERROR "the installed program does not use its own data:\n${without}")
endif()
file(REMOVE_RECURSE ${TO}-moved)
