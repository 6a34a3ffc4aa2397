# cmake -DPROGRAM=rigcast -DTO=FOLDER -P RigcastPages.cmake
#   Writes manual pages and completions as they lie under share/: man/man1,
#   bash-completion/completions, zsh/site-functions, fish/vendor_completions.d.
function(write_output file)
  execute_process(COMMAND ${PROGRAM} ${ARGN} OUTPUT_FILE ${file} RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "${PROGRAM} ${ARGN}: ${failed}")
  endif()
endfunction()

set(man ${TO}/man/man1)
set(bash ${TO}/bash-completion/completions)
set(zsh ${TO}/zsh/site-functions)
set(fish ${TO}/fish/vendor_completions.d)
file(MAKE_DIRECTORY ${man} ${bash} ${zsh} ${fish})
write_output(${bash}/rigcast completion bash)
write_output(${zsh}/_rigcast completion zsh)
write_output(${fish}/rigcast.fish completion fish)

write_output(${man}/rigcast.1 man)
execute_process(COMMAND ${PROGRAM} __complete "" OUTPUT_VARIABLE lines)
string(REGEX MATCHALL "[^\n]+" lines "${lines}")
foreach(line ${lines})
  string(REGEX REPLACE "\t.*" "" verb "${line}")
  write_output(${man}/rigcast-${verb}.1 man ${verb})
endforeach()
# As distributions have them; without a name and date inside, the same bytes each time.
find_program(GZIP gzip)
if(GZIP)
  file(GLOB plain ${man}/*.1)
  execute_process(COMMAND ${GZIP} -9nf ${plain})
endif()
file(TOUCH ${TO}/stamp)
