timeout: failed to run command ‘tierml’: No such file or directory
