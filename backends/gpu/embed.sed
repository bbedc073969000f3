# SPDX-License-Identifier: Apache-2.0
# Lines of a .yk file, or of a text of cli/options/manual, as the lines of a C string: s/\ and "/escaped/, quotes around, a newline at the end.
s/[\\"]/\\&/g
s/.*/"&\\n"/
